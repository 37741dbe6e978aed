// SPDX-License-Identifier: GPL-2.0
/*
 * The functions that ib_core exports against the C original: random devices,
 * lists and sequences of calls, run through both, and everything compared that
 * a caller or a device can see. A second suite runs cases of callers who break
 * the rules through what ib_core exports alone. See differential.rs.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <kunit/test.h>
#include <kunit/test-bug.h>
#include <linux/delay.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/panic_notifier.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/random.h>
#include <linux/sched.h>

#include "differential.h"

static struct rdma_rw_differential_params params = {
	.count = 20000,
	.seed = 1,
};

module_param_named(count, params.count, ullong, 0);
MODULE_PARM_DESC(count, "Number of cases");
module_param_named(seed, params.seed, ullong, 0);
MODULE_PARM_DESC(seed, "What the cases are made from");
module_param_named(first, params.first, ullong, 0);
MODULE_PARM_DESC(first, "Number of the first case");

/* The test case that runs. */
static struct kunit *running;

void rdma_rw_differential_print(const char *text)
{
	kunit_info(running, "%s", text);
}

/* Number of the case that runs. */
static u64 running_case;

void rdma_rw_differential_begin(u64 number)
{
	running_case = number;
}

/* A case that the kernel dies of cannot be cut down, but be had again. */
static int say_case(struct notifier_block *nb, unsigned long action, void *data)
{
	pr_emerg("case %llu of seed %llu was running; again: seed=%llu first=%llu count=1\n",
		 running_case, params.seed, params.seed, running_case);
	return NOTIFY_DONE;
}

static struct notifier_block at_panic = {
	.notifier_call = say_case,
	/* That of User Mode Linux comes next and does not return. */
	.priority = INT_MAX,
};

void rdma_rw_differential_rest(void)
{
	cond_resched();
}

struct ib_device *rdma_rw_differential_alloc_device(size_t size)
{
	return _ib_alloc_device(size, &init_net);
}

/* A device whose DMA goes through @ops; NULL where the kernel has no such. */
struct device *rdma_rw_differential_simulated(const struct dma_map_ops *ops)
{
	struct platform_device *pdev;

	if (!IS_ENABLED(CONFIG_ARCH_HAS_DMA_OPS))
		return NULL;

	pdev = platform_device_register_simple("rdma_rw_differential",
					       PLATFORM_DEVID_AUTO, NULL, 0);
	if (IS_ERR(pdev))
		return NULL;
	dma_coerce_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	set_dma_ops(&pdev->dev, ops);
	return &pdev->dev;
}

#ifdef CONFIG_IOMMU_DMA
/* QEMU's edu device: a DMA engine with a buffer of its own. */
enum {
	EDU_DMA_SRC = 0x80,
	EDU_DMA_DST = 0x88,
	EDU_DMA_LEN = 0x90,
	EDU_DMA_CMD = 0x98,
	EDU_BUFFER = 0x40000,
	/* Half of it: some QEMUs stop at a move that reaches the end. */
	EDU_BUFFER_SIZE = 2048,
};

#define EDU_RUN			BIT(0)
#define EDU_TO_MEMORY		BIT(1)

/* It has so many address lines unless it is told otherwise. */
#define EDU_MASK		DMA_BIT_MASK(28)

static void __iomem *edu;
static void *edu_bounce;
static dma_addr_t edu_bounce_addr;

/* The edu device behind an IOMMU that translates; NULL if there is none. */
static struct device *edu_get(void)
{
	struct iommu_domain *domain;
	struct pci_dev *pdev;

	pdev = pci_get_device(0x1234, 0x11e8, NULL);
	if (!pdev)
		return NULL;

	domain = iommu_get_domain_for_dev(&pdev->dev);
	if (!domain || !(domain->type & __IOMMU_DOMAIN_DMA_API) ||
	    pci_enable_device(pdev))
		goto put;
	if (dma_set_mask_and_coherent(&pdev->dev, EDU_MASK))
		goto disable;
	edu = pci_iomap(pdev, 0, 0);
	if (!edu)
		goto disable;
	edu_bounce = dma_alloc_coherent(&pdev->dev, EDU_BUFFER_SIZE,
					&edu_bounce_addr, GFP_KERNEL);
	if (!edu_bounce)
		goto unmap;
	pci_set_master(pdev);
	return &pdev->dev;

unmap:
	pci_iounmap(pdev, edu);
disable:
	pci_disable_device(pdev);
put:
	pci_dev_put(pdev);
	return NULL;
}

static void edu_put(struct pci_dev *pdev)
{
	pci_clear_master(pdev);
	dma_free_coherent(&pdev->dev, EDU_BUFFER_SIZE, edu_bounce,
			  edu_bounce_addr);
	pci_iounmap(pdev, edu);
	pci_disable_device(pdev);
	pci_dev_put(pdev);
}

static int edu_move(u64 from, u64 to, u32 len, u32 direction)
{
	int tries = 1000;

	writeq(from, edu + EDU_DMA_SRC);
	writeq(to, edu + EDU_DMA_DST);
	writeq(len, edu + EDU_DMA_LEN);
	writeq(EDU_RUN | direction, edu + EDU_DMA_CMD);
	while (readq(edu + EDU_DMA_CMD) & EDU_RUN) {
		if (!tries--)
			return -ETIMEDOUT;
		msleep(20);
	}
	return 0;
}

static int edu_copy(u64 addr, void *data, u32 len, bool from_memory)
{
	int ret;

	if (from_memory) {
		ret = edu_move(addr, EDU_BUFFER, len, 0);
		if (!ret)
			ret = edu_move(EDU_BUFFER, edu_bounce_addr, len,
				       EDU_TO_MEMORY);
		if (!ret)
			memcpy(data, edu_bounce, len);
		return ret;
	}

	memcpy(edu_bounce, data, len);
	ret = edu_move(edu_bounce_addr, EDU_BUFFER, len, 0);
	if (!ret)
		ret = edu_move(EDU_BUFFER, addr, len, EDU_TO_MEMORY);
	return ret;
}

/* Lets the device itself move bytes between @addr and @data. */
int rdma_rw_differential_dma(struct device *dev, u64 addr, void *data,
			     u32 len, bool from_memory)
{
	int ret = 0;
	u32 at, now;

	for (at = 0; !ret && at < len; at += now) {
		now = min_t(u32, len - at, EDU_BUFFER_SIZE);
		ret = edu_copy(addr + at, data + at, now, from_memory);
	}
	return ret;
}
#else
static struct device *edu_get(void)
{
	return NULL;
}

static void edu_put(struct pci_dev *pdev)
{
}

int rdma_rw_differential_dma(struct device *dev, u64 addr, void *data,
			     u32 len, bool from_memory)
{
	return -ENODEV;
}
#endif

/* A device behind a real IOMMU; NULL if there is none. */
struct device *rdma_rw_differential_real(void)
{
	return edu_get();
}

void rdma_rw_differential_put(struct device *dev)
{
	if (dev_is_pci(dev))
		edu_put(to_pci_dev(dev));
	else
		platform_device_unregister(to_platform_device(dev));
}

/* Physical address behind an address of the device; 0 if there is nothing. */
u64 rdma_rw_differential_translate(struct device *dev, u64 addr)
{
#ifdef CONFIG_IOMMU_DMA
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	return domain ? iommu_iova_to_phys(domain, addr) : 0;
#else
	return 0;
#endif
}

u64 rdma_rw_differential_virt_to_phys(const void *address)
{
	return virt_to_phys((void *)address);
}

struct page *rdma_rw_differential_alloc_pages(unsigned int order)
{
	return alloc_pages(GFP_KERNEL, order);
}

void rdma_rw_differential_free_pages(struct page *page, unsigned int order)
{
	__free_pages(page, order);
}

void *rdma_rw_differential_page_address(const struct page *page)
{
	return page_address(page);
}

void rdma_rw_differential_random(void *buffer, size_t size)
{
	get_random_bytes(buffer, size);
}

void rdma_rw_differential_init_lock(spinlock_t *lock)
{
	spin_lock_init(lock);
}

u64 rdma_rw_differential_free_memory(void)
{
	return nr_free_buffer_pages() ? si_mem_available() : 0;
}

static struct rdma_rw_differential *differential;

static int suite_init(bool hostile)
{
	int ret = rdma_rw_differential_up(&differential, &params, hostile);

	if (!ret)
		atomic_notifier_chain_register(&panic_notifier_list, &at_panic);
	return ret;
}

static int differential_suite_init(struct kunit_suite *suite)
{
	return suite_init(false);
}

static int fuzz_suite_init(struct kunit_suite *suite)
{
	return suite_init(true);
}

static void suite_exit(struct kunit_suite *suite)
{
	if (!differential)
		return;

	atomic_notifier_chain_unregister(&panic_notifier_list, &at_panic);
	rdma_rw_differential_down(differential);
	differential = NULL;
}

/* Callers that break the rules are part of it: their warnings are expected. */
static void part(struct kunit *test)
{
	const unsigned int *nr = test->param_value;
	int ret = 0;

	running = test;
	kunit_warning_suppress(test)
		ret = rdma_rw_differential_part(differential, *nr);
	KUNIT_EXPECT_EQ(test, ret, 0);
}

static void reach(struct kunit *test)
{
	running = test;
	KUNIT_EXPECT_EQ(test, rdma_rw_differential_reach(differential), 0);
}

static const void *parts_gen_params(struct kunit *test, const void *prev,
				    char *desc)
{
	static unsigned int parts[RDMA_RW_DIFFERENTIAL_PARTS];
	unsigned int nr = prev ? *(const unsigned int *)prev + 1 : 0;

	if (nr == RDMA_RW_DIFFERENTIAL_PARTS)
		return NULL;
	parts[nr] = nr;
	scnprintf(desc, KUNIT_PARAM_DESC_SIZE, "part %u", nr);
	return &parts[nr];
}

static struct kunit_case differential_cases[] = {
	KUNIT_CASE_PARAM_ATTR(part, parts_gen_params,
			      { .speed = KUNIT_SPEED_VERY_SLOW }),
	KUNIT_CASE(reach),
	{}
};

static struct kunit_suite differential_suite = {
	.name = "rdma_rw_differential",
	.suite_init = differential_suite_init,
	.suite_exit = suite_exit,
	.test_cases = differential_cases,
};

static struct kunit_case fuzz_cases[] = {
	KUNIT_CASE_PARAM_ATTR(part, parts_gen_params,
			      { .speed = KUNIT_SPEED_VERY_SLOW }),
	KUNIT_CASE(reach),
	{}
};

static struct kunit_suite fuzz_suite = {
	.name = "rdma_rw_fuzz",
	.suite_init = fuzz_suite_init,
	.suite_exit = suite_exit,
	.test_cases = fuzz_cases,
};

kunit_test_suites(&differential_suite, &fuzz_suite);

MODULE_DESCRIPTION("RDMA READ/WRITE API against the C original");
MODULE_LICENSE("GPL");
