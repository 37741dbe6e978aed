// SPDX-License-Identifier: GPL-2.0
/*
 * Inline functions and macros of the kernel's headers, made callable from the
 * tests.
 */
#include <kunit/test-bug.h>
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/iommu.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/pci-p2pdma.h>
#include <linux/platform_device.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include "bindings_helper.h"

/* KUnit */

void rdma_rw_kunit_fail(struct kunit *test, const char *file, int line,
			const char *message)
{
	const struct kunit_loc loc = { .file = file, .line = line };
	const struct kunit_fail_assert assert = {};

	__kunit_do_failed_assertion(test, &loc, KUNIT_EXPECTATION,
				    &assert.assert, kunit_fail_assert_format,
				    "%s", message);
}

void rdma_rw_kunit_skip(struct kunit *test, const char *reason)
{
	kunit_mark_skipped(test, "%s", reason);
}

const void *rdma_rw_kunit_param(struct kunit *test)
{
	return test->param_value;
}

/*
 * Lets warnings that come once only come again. Where a suppressed warning
 * does not count as the one there is nothing to do.
 */
void rdma_rw_kunit_clear_once(void)
{
#if IS_ENABLED(CONFIG_UML) && IS_BUILTIN(CONFIG_INFINIBAND_RDMA_RW_KUNIT_TEST)
	memset(__start_once, 0, __end_once - __start_once);
#endif
}

/* Devices */

struct ib_device *rdma_rw_kunit_alloc_device(size_t size)
{
	return _ib_alloc_device(size, &init_net);
}

/* An iWARP port wants a network device; nothing goes over it. */
int rdma_rw_kunit_set_netdev(struct ib_device *dev)
{
	return ib_device_set_netdev(dev, init_net.loopback_dev, 1);
}

struct module *rdma_rw_kunit_module(void)
{
	return THIS_MODULE;
}

/*
 * A device whose DMA goes through @ops, or is direct without any; NULL where the
 * kernel has no such.
 */
struct device *rdma_rw_kunit_dma_device(const struct dma_map_ops *ops,
					void *data)
{
	struct platform_device *pdev;

	if (!IS_ENABLED(CONFIG_ARCH_HAS_DMA_OPS))
		return NULL;

	pdev = platform_device_register_simple("rdma_rw_kunit",
					       PLATFORM_DEVID_AUTO, NULL, 0);
	if (IS_ERR(pdev))
		return ERR_CAST(pdev);

	dma_coerce_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ops)
		set_dma_ops(&pdev->dev, ops);
	dev_set_drvdata(&pdev->dev, data);
	return &pdev->dev;
}

/*
 * A PCI function, whose reference this takes over, as a device for DMA; NULL if
 * there is none behind an IOMMU that translates.
 */
static struct device *rdma_rw_kunit_translated(struct pci_dev *pdev)
{
	struct iommu_domain *domain;

	if (!pdev)
		return NULL;

	domain = iommu_get_domain_for_dev(&pdev->dev);
	if (!domain || !iommu_is_dma_domain(domain)) {
		pci_dev_put(pdev);
		return NULL;
	}

	dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(48));
	return &pdev->dev;
}

/* QEMU's edu device. */
struct device *rdma_rw_kunit_pci_device(void)
{
	return rdma_rw_kunit_translated(pci_get_device(0x1234, 0x11e8, NULL));
}

/* QEMU's ivshmem device, whose memory PCI functions may get at. */
static struct pci_dev *rdma_rw_kunit_peer(void)
{
	return pci_get_device(0x1af4, 0x1110, NULL);
}

/* Offers its memory, if it is not offered already; that is for good. */
static int rdma_rw_kunit_offer(struct pci_dev *peer)
{
	void *memory = pci_alloc_p2pmem(peer, PAGE_SIZE);
	int ret;

	if (memory) {
		pci_free_p2pmem(peer, memory, PAGE_SIZE);
		return 0;
	}

	ret = pci_enable_device_mem(peer);
	if (ret)
		return ret;
	ret = pci_p2pdma_add_resource(peer, 2, 0, 0);
	if (ret)
		pci_disable_device(peer);
	return ret;
}

/*
 * A device for transfers of the memory of a PCI function: this function itself,
 * or one that has no way there.
 */
struct device *rdma_rw_kunit_peer_device(bool own)
{
	struct device *dev = rdma_rw_kunit_translated(rdma_rw_kunit_peer());
	int ret;

	if (!dev)
		return NULL;

	ret = rdma_rw_kunit_offer(to_pci_dev(dev));
	if (!ret && own)
		return dev;
	put_device(dev);
	return ret ? ERR_PTR(ret) : rdma_rw_kunit_pci_device();
}

void rdma_rw_kunit_put_dma_device(struct device *dev)
{
	if (dev_is_pci(dev))
		pci_dev_put(to_pci_dev(dev));
	else
		platform_device_unregister(to_platform_device(dev));
}

u64 rdma_rw_kunit_iova_to_phys(struct device *dev, u64 iova)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	return domain ? iommu_iova_to_phys(domain, iova) : 0;
}

void *rdma_rw_kunit_phys_to_virt(u64 phys)
{
	return phys_to_virt(phys);
}

u64 rdma_rw_kunit_page_to_phys(struct page *page)
{
	return page_to_phys(page);
}

/* Memory */

struct page *rdma_rw_kunit_alloc_pages(unsigned int order)
{
	return alloc_pages(GFP_KERNEL | __GFP_ZERO, order);
}

void rdma_rw_kunit_free_pages(struct page *page, unsigned int order)
{
	__free_pages(page, order);
}

struct page *rdma_rw_kunit_alloc_peer_pages(unsigned int order)
{
	struct pci_dev *peer = rdma_rw_kunit_peer();
	void *memory;

	if (!peer)
		return NULL;
	memory = pci_alloc_p2pmem(peer, PAGE_SIZE << order);
	pci_dev_put(peer);
	return memory ? virt_to_page(memory) : NULL;
}

void rdma_rw_kunit_free_peer_pages(struct page *page, unsigned int order)
{
	struct pci_dev *peer = rdma_rw_kunit_peer();

	pci_free_p2pmem(peer, page_address(page), PAGE_SIZE << order);
	pci_dev_put(peer);
}

void *rdma_rw_kunit_page_address(struct page *page)
{
	return page_address(page);
}

struct page *rdma_rw_kunit_nth_page(struct page *page, unsigned long n)
{
	return pfn_to_page(page_to_pfn(page) + n);
}

struct scatterlist *rdma_rw_kunit_sg_next(struct scatterlist *sg)
{
	return sg_next(sg);
}

u64 rdma_rw_kunit_sg_phys(struct scatterlist *sg)
{
	return sg_phys(sg);
}

/*
 * The functions of the IOVA API, watched by kprobes: calls of the current task
 * are counted, and one of them can be made to return something else, without
 * being executed.
 */
#if IS_ENABLED(CONFIG_KPROBES) && IS_ENABLED(CONFIG_IOMMU_DMA) && defined(CONFIG_X86_64)
static struct {
	struct kprobe probe;
	unsigned int calls;
	unsigned int fail_at;
	long value;
} rdma_rw_kunit_iova[RDMA_RW_KUNIT_IOVA_NR] = {
	[RDMA_RW_KUNIT_IOVA_ALLOC].probe.symbol_name = "dma_iova_try_alloc",
	[RDMA_RW_KUNIT_IOVA_LINK].probe.symbol_name = "dma_iova_link",
	[RDMA_RW_KUNIT_IOVA_SYNC].probe.symbol_name = "dma_iova_sync",
	[RDMA_RW_KUNIT_IOVA_DESTROY].probe.symbol_name = "dma_iova_destroy",
};

static struct task_struct *rdma_rw_kunit_watching;

static noinline notrace void rdma_rw_kunit_return(void)
{
	barrier();
}

static int rdma_rw_kunit_iova_called(struct kprobe *probe, struct pt_regs *regs)
{
	typeof(*rdma_rw_kunit_iova) *this =
		container_of(probe, typeof(*this), probe);

	if (current != rdma_rw_kunit_watching || ++this->calls != this->fail_at)
		return 0;

	regs->ax = this->value;
	regs->ip = (unsigned long)rdma_rw_kunit_return;
	return 1;
}

int rdma_rw_kunit_iova_watch(void)
{
	int i, ret;

	for (i = 0; i < RDMA_RW_KUNIT_IOVA_NR; i++) {
		struct kprobe *probe = &rdma_rw_kunit_iova[i].probe;

		/* What an earlier registration has left. */
		probe->addr = NULL;
		probe->flags = 0;
		probe->pre_handler = rdma_rw_kunit_iova_called;
		rdma_rw_kunit_iova[i].calls = 0;
		rdma_rw_kunit_iova[i].fail_at = 0;
		ret = register_kprobe(probe);
		if (ret) {
			while (--i >= 0)
				unregister_kprobe(&rdma_rw_kunit_iova[i].probe);
			return ret;
		}
	}
	rdma_rw_kunit_watching = current;
	return 0;
}

void rdma_rw_kunit_iova_unwatch(void)
{
	int i;

	rdma_rw_kunit_watching = NULL;
	for (i = 0; i < RDMA_RW_KUNIT_IOVA_NR; i++)
		unregister_kprobe(&rdma_rw_kunit_iova[i].probe);
}

void rdma_rw_kunit_iova_fail(enum rdma_rw_kunit_iova_call call, unsigned int nth,
			     long value)
{
	rdma_rw_kunit_iova[call].fail_at = rdma_rw_kunit_iova[call].calls + nth;
	rdma_rw_kunit_iova[call].value = value;
}

unsigned int rdma_rw_kunit_iova_calls(enum rdma_rw_kunit_iova_call call)
{
	return rdma_rw_kunit_iova[call].calls;
}
#else
int rdma_rw_kunit_iova_watch(void)
{
	return -EOPNOTSUPP;
}

void rdma_rw_kunit_iova_unwatch(void)
{
}

void rdma_rw_kunit_iova_fail(enum rdma_rw_kunit_iova_call call, unsigned int nth,
			     long value)
{
}

unsigned int rdma_rw_kunit_iova_calls(enum rdma_rw_kunit_iova_call call)
{
	return 0;
}
#endif

/*
 * Pages that the slab allocator has, once what was to be freed with a delay is
 * freed.
 */
unsigned long rdma_rw_kunit_slab_pages(void)
{
	rcu_barrier();
	msleep(20);
	return global_node_page_state_pages(NR_SLAB_UNRECLAIMABLE_B) +
	       global_node_page_state_pages(NR_SLAB_RECLAIMABLE_B);
}

/*
 * By how many pages that may differ for no other reason than that processors
 * count apart from each other, and keep some slabs for themselves.
 */
unsigned int rdma_rw_kunit_slab_slack(void)
{
	return 75 * num_online_cpus();
}

/* Faults and contexts */

bool rdma_rw_kunit_set_fail_nth(unsigned int n)
{
#ifdef CONFIG_FAULT_INJECTION
	current->fail_nth = n;
	return true;
#else
	return false;
#endif
}

unsigned int rdma_rw_kunit_fail_nth(void)
{
#ifdef CONFIG_FAULT_INJECTION
	return current->fail_nth;
#else
	return 0;
#endif
}

/* Whether an allocation that may sleep can be made to fail. */
bool rdma_rw_kunit_alloc_fails(void)
{
	void *memory;

	if (!rdma_rw_kunit_set_fail_nth(1))
		return false;
	memory = kmalloc(64, GFP_KERNEL | __GFP_NOWARN);
	rdma_rw_kunit_set_fail_nth(0);
	kfree(memory);
	return !memory;
}

void rdma_rw_kunit_bh_disable(void)
{
	local_bh_disable();
}

void rdma_rw_kunit_bh_enable(void)
{
	local_bh_enable();
}

struct rdma_rw_kunit_work {
	struct work_struct work;
	void (*fn)(void *data);
	void *data;
};

static void rdma_rw_kunit_worker(struct work_struct *work)
{
	struct rdma_rw_kunit_work *this = container_of(work, struct rdma_rw_kunit_work, work);

	this->fn(this->data);
}

/* Runs @fn in a softirq and waits for it. */
void rdma_rw_kunit_in_softirq(void (*fn)(void *data), void *data)
{
	struct rdma_rw_kunit_work this = { .fn = fn, .data = data };

	INIT_WORK_ONSTACK(&this.work, rdma_rw_kunit_worker);
	queue_work(system_bh_wq, &this.work);
	flush_work(&this.work);
	destroy_work_on_stack(&this.work);
}

/* Runs @fn in @nr threads at once and waits for them. */
int rdma_rw_kunit_run_threads(unsigned int nr, void (*fn)(void *data), void *data)
{
	struct rdma_rw_kunit_work *works;
	unsigned int i;

	works = kcalloc(nr, sizeof(*works), GFP_KERNEL);
	if (!works)
		return -ENOMEM;

	for (i = 0; i < nr; i++) {
		INIT_WORK(&works[i].work, rdma_rw_kunit_worker);
		works[i].fn = fn;
		works[i].data = data;
		queue_work(system_unbound_wq, &works[i].work);
	}
	for (i = 0; i < nr; i++)
		flush_work(&works[i].work);
	kfree(works);
	return 0;
}

int rdma_rw_kunit_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			    const struct ib_send_wr **bad_wr)
{
	return ib_post_send(qp, wr, bad_wr);
}
