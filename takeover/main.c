// SPDX-License-Identifier: GPL-2.0
/*
 * Takes the RDMA READ/WRITE API over from the C code of a running ib_core, and
 * gives it back: a livepatch of all its functions at once.
 *
 * Contexts cross the switch in both directions while they are in use; see
 * docs/insmod.md.
 */
#include "takeover.h"

#include <linux/ftrace.h>
#include <linux/livepatch.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>

#include "ib_core_generated.h"

/* The parameter; ib_core's own joins it before any of its functions is replaced. */
bool rdma_rw_force_mr;
module_param_named(force_mr, rdma_rw_force_mr, bool, 0444);
MODULE_PARM_DESC(force_mr, "Register memory for every RDMA READ and WRITE, also where the device does without; QPs that were made without MRs keep doing without");

/* Tells the notes that this load leaves in contexts from those of an earlier one. */
u32 rdma_rw_c_load;

/* What stands for the memory behind SGEs that nothing uses. */
static struct page *spare_page;
static bool spare_page_used;

struct page *rdma_rw_c_spare_page(void)
{
	WRITE_ONCE(spare_page_used, true);
	return spare_page;
}

/*
 * Where it has been used, a context that outlives this module may have it
 * mapped still, and whatever the unmapping writes there is to hit nobody else.
 */
static void put_spare_page(void)
{
	if (!spare_page_used)
		__free_page(spare_page);
}

/* ------------------------------------------------------------------ state */

enum takeover_state { LOADING, TAKING_OVER, ACTIVE, GIVING_BACK, GIVEN_BACK };

static const char * const state_names[] = {
	[LOADING] = "loading",
	[TAKING_OVER] = "taking over",
	[ACTIVE] = "active",
	[GIVING_BACK] = "giving back",
	[GIVEN_BACK] = "given back",
};

static enum takeover_state state;

static int state_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", state_names[READ_ONCE(state)]);
}

static const struct kernel_param_ops state_ops = { .get = state_get };
module_param_cb(state, &state_ops, NULL, 0444);
MODULE_PARM_DESC(state, "Who serves rdma_rw: taking over, active (this module does), giving back, given back (ib_core does); read-only");
__MODULE_PARM_TYPE(state, "string");

/* ------------------------------------------------------------- the switch */

#define FUNC(index, function) \
	[index] = { .old_name = #function, .new_func = function }

static struct klp_func funcs[] = {
	FUNC(RDMA_RW_CTX_INIT, rdma_rw_ctx_init),
	FUNC(RDMA_RW_CTX_INIT_BVEC, rdma_rw_ctx_init_bvec),
	FUNC(RDMA_RW_CTX_SIGNATURE_INIT, rdma_rw_ctx_signature_init),
	FUNC(RDMA_RW_CTX_WRS, rdma_rw_ctx_wrs),
	FUNC(RDMA_RW_CTX_POST, rdma_rw_ctx_post),
	FUNC(RDMA_RW_CTX_DESTROY, rdma_rw_ctx_destroy),
	FUNC(RDMA_RW_CTX_DESTROY_BVEC, rdma_rw_ctx_destroy_bvec),
	FUNC(RDMA_RW_CTX_DESTROY_SIGNATURE, rdma_rw_ctx_destroy_signature),
	FUNC(RDMA_RW_MR_FACTOR, rdma_rw_mr_factor),
	FUNC(RDMA_RW_MAX_SEND_WR, rdma_rw_max_send_wr),
	FUNC(RDMA_RW_INIT_QP, rdma_rw_init_qp),
	FUNC(RDMA_RW_INIT_MRS, rdma_rw_init_mrs),
	FUNC(RDMA_RW_CLEANUP_MRS, rdma_rw_cleanup_mrs),
	[NR_TAKEOVER_FUNCS] = { }
};

/* Where they lie in the ib_core that the module was built for; by their order above. */
static const long offsets[NR_TAKEOVER_FUNCS] = RDMA_RW_IB_CORE_OFFSETS;

static const struct rdma_rw_side rust_side = {
	.name = "this module",
	.init = rdma_rw_ctx_init,
	.init_bvec = rdma_rw_ctx_init_bvec,
	.signature_init = rdma_rw_ctx_signature_init,
	.wrs = rdma_rw_ctx_wrs,
	.destroy = rdma_rw_ctx_destroy,
	.destroy_bvec = rdma_rw_ctx_destroy_bvec,
	.destroy_signature = rdma_rw_ctx_destroy_signature,
};

/*
 * What is in Rust has no place where a livepatch could step in: such an ib_core
 * has this project's in-tree form in it.
 */
static int check_patchable(void)
{
	/* Only asked about, never registered. */
	static struct ftrace_ops ops;
	int i, ret = 0;

	for (i = 0; i < NR_TAKEOVER_FUNCS && !ret; i++) {
		ret = ftrace_set_filter_ip(&ops, (unsigned long)funcs[i].old_func, 0, 0);
		if (ret)
			pr_err("%s() of ib_core cannot be replaced: it is in Rust already, or not traceable\n",
			       funcs[i].old_name);
	}
	ftrace_free_filter(&ops);
	return ret;
}

/* The compiler makes another layout of anything but the same code. */
static int check_functions(void)
{
	int i;

	for (i = 0; i < NR_TAKEOVER_FUNCS; i++) {
		if (funcs[i].old_func - funcs[0].old_func == offsets[i])
			continue;
		pr_err("%s() is not where it lies in the ib_core that this module was built for: build it for this one\n",
		       funcs[i].old_name);
		return -ENOEXEC;
	}
	return 0;
}

static int check_contexts(void)
{
	const struct rdma_rw_side c_side = {
		.name = "ib_core",
		.init = funcs[RDMA_RW_CTX_INIT].old_func,
		.init_bvec = funcs[RDMA_RW_CTX_INIT_BVEC].old_func,
		.signature_init = funcs[RDMA_RW_CTX_SIGNATURE_INIT].old_func,
		.wrs = funcs[RDMA_RW_CTX_WRS].old_func,
		.destroy = funcs[RDMA_RW_CTX_DESTROY].old_func,
		.destroy_bvec = funcs[RDMA_RW_CTX_DESTROY_BVEC].old_func,
		.destroy_signature = funcs[RDMA_RW_CTX_DESTROY_SIGNATURE].old_func,
	};

	return takeover_proof(&c_side, &rust_side);
}

/* The value of ib_core's own force_mr, which is not to be changed at run time. */
static bool ib_core_force_mr(const struct module *ib_core)
{
	unsigned int i;

	for (i = 0; i < ib_core->num_kp; i++) {
		const struct kernel_param *kp = &ib_core->kp[i];

		if (!strcmp(kp->name, "force_mr"))
			return *(const bool *)kp->arg;
	}
	return false;
}

/* Nothing has been replaced yet, and nothing will be where this fails. */
static int pre_patch(struct klp_object *obj)
{
	bool forced = rdma_rw_force_mr;
	int ret;

	ret = check_patchable();
	if (ret)
		return ret;
	ret = check_functions();
	if (ret)
		return ret;

	/* Both sides are to do the same in what is compared below. */
	rdma_rw_force_mr = ib_core_force_mr(obj->mod);
	ret = check_contexts();
	/*
	 * C cannot do without MRs where it was told to use them, so the QPs that
	 * it will get back must have some.
	 */
	rdma_rw_force_mr |= forced;
	if (ret)
		return ret;

	takeover_counters_start();
	WRITE_ONCE(state, TAKING_OVER);
	return 0;
}

/* Every task runs the functions of this module now. */
static void post_patch(struct klp_object *obj)
{
	takeover_counters_settled();
	WRITE_ONCE(state, ACTIVE);
	pr_info("in charge of RDMA READ and WRITE\n");
}

static void pre_unpatch(struct klp_object *obj)
{
	WRITE_ONCE(state, GIVING_BACK);
}

/* Every task runs the functions of ib_core again. */
static void post_unpatch(struct klp_object *obj)
{
	u64 made;
	s64 alive;

	WRITE_ONCE(state, GIVEN_BACK);
	takeover_counters_read(&made, &alive);
	pr_info("RDMA READ and WRITE are ib_core's again, after %llu contexts, with %lld for it to release\n",
		made, alive);
}

static struct klp_object objs[] = {
	{
		.name = "ib_core",
		.funcs = funcs,
		.callbacks = {
			.pre_patch = pre_patch,
			.post_patch = post_patch,
			.pre_unpatch = pre_unpatch,
			.post_unpatch = post_unpatch,
		},
	}, { }
};

static struct klp_patch patch = {
	.mod = THIS_MODULE,
	.objs = objs,
};

static int __init rdma_rw_init(void)
{
	int ret;

	rdma_rw_c_load = get_random_u32();
	spare_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!spare_page)
		return -ENOMEM;
	takeover_counters_init();

	ret = klp_enable_patch(&patch);
	if (ret) {
		pr_err("not taking over from ib_core: error %d\n", ret);
		takeover_counters_exit();
		put_spare_page();
	}
	return ret;
}

/* Comes only after the functions have been given back. */
static void __exit rdma_rw_exit(void)
{
	takeover_counters_exit();
	put_spare_page();
}

module_init(rdma_rw_init);
module_exit(rdma_rw_exit);

MODULE_AUTHOR("The rdma_rw developers");
MODULE_DESCRIPTION("RDMA READ/WRITE API in Rust, in place of that of the running ib_core");
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
