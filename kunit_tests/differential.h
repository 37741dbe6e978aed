/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C and the Rust half of the suites of random cases say to each other.
 */
#ifndef _RDMA_RW_DIFFERENTIAL_H
#define _RDMA_RW_DIFFERENTIAL_H

#include <linux/dma-map-ops.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

/* The cases are run in so many parts, each a KUnit case. */
#define RDMA_RW_DIFFERENTIAL_PARTS 16

struct rdma_rw_differential_params {
	/* Number of cases in all parts. */
	u64 count;
	/* Each case is made from this and its number. */
	u64 seed;
	/* Number of the first case. */
	u64 first;
};

struct rdma_rw_differential;

/* differential.rs: they return 0 or an error. */
int rdma_rw_differential_up(struct rdma_rw_differential **differential,
			    const struct rdma_rw_differential_params *params,
			    bool hostile);
int rdma_rw_differential_part(struct rdma_rw_differential *differential,
			      unsigned int part);
int rdma_rw_differential_reach(struct rdma_rw_differential *differential);
void rdma_rw_differential_down(struct rdma_rw_differential *differential);

/* differential_kunit.c: what is inline in headers. */
void rdma_rw_differential_print(const char *text);
void rdma_rw_differential_begin(u64 number);
void rdma_rw_differential_rest(void);
struct ib_device *rdma_rw_differential_alloc_device(size_t size);
struct device *rdma_rw_differential_simulated(const struct dma_map_ops *ops);
struct device *rdma_rw_differential_real(void);
void rdma_rw_differential_put(struct device *dev);
u64 rdma_rw_differential_translate(struct device *dev, u64 addr);
int rdma_rw_differential_dma(struct device *dev, u64 addr, void *data,
			     u32 len, bool from_memory);
u64 rdma_rw_differential_virt_to_phys(const void *address);
struct page *rdma_rw_differential_alloc_pages(unsigned int order);
void rdma_rw_differential_free_pages(struct page *page, unsigned int order);
void *rdma_rw_differential_page_address(const struct page *page);
void rdma_rw_differential_random(void *buffer, size_t size);
void rdma_rw_differential_init_lock(spinlock_t *lock);
u64 rdma_rw_differential_free_memory(void);

#endif
