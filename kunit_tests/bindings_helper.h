/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads for the tests: the headers of a provider of RDMA devices
 * and of KUnit, and the declarations that Rust and C share.
 */
#ifndef _RDMA_RW_TESTS_BINDINGS_HELPER_H
#define _RDMA_RW_TESTS_BINDINGS_HELPER_H

#include <kunit/test.h>
#include <linux/bvec.h>
#include <linux/dma-mapping.h>
#include <linux/dma-map-ops.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/mr_pool.h>
#include <rdma/rw.h>

#include "differential.h"
#include "loopback.h"
#include "referee.h"

/* helpers.c: what is inline or a macro in the kernel's headers. */
void rdma_rw_kunit_fail(struct kunit *test, const char *file, int line,
			const char *message);
void rdma_rw_kunit_skip(struct kunit *test, const char *reason);
const void *rdma_rw_kunit_param(struct kunit *test);
void rdma_rw_kunit_clear_once(void);

struct ib_device *rdma_rw_kunit_alloc_device(size_t size);
int rdma_rw_kunit_set_netdev(struct ib_device *dev);
struct module *rdma_rw_kunit_module(void);
struct device *rdma_rw_kunit_dma_device(const struct dma_map_ops *ops,
					void *data);
struct device *rdma_rw_kunit_pci_device(void);
struct device *rdma_rw_kunit_peer_device(bool own);
void rdma_rw_kunit_put_dma_device(struct device *dev);
u64 rdma_rw_kunit_iova_to_phys(struct device *dev, u64 iova);
void *rdma_rw_kunit_phys_to_virt(u64 phys);
u64 rdma_rw_kunit_page_to_phys(struct page *page);

struct page *rdma_rw_kunit_alloc_pages(unsigned int order);
void rdma_rw_kunit_free_pages(struct page *page, unsigned int order);
struct page *rdma_rw_kunit_alloc_peer_pages(unsigned int order);
void rdma_rw_kunit_free_peer_pages(struct page *page, unsigned int order);
void *rdma_rw_kunit_page_address(struct page *page);
struct page *rdma_rw_kunit_nth_page(struct page *page, unsigned long n);
struct scatterlist *rdma_rw_kunit_sg_next(struct scatterlist *sg);
u64 rdma_rw_kunit_sg_phys(struct scatterlist *sg);
unsigned long rdma_rw_kunit_slab_pages(void);
unsigned int rdma_rw_kunit_slab_slack(void);

enum rdma_rw_kunit_iova_call {
	RDMA_RW_KUNIT_IOVA_ALLOC,
	RDMA_RW_KUNIT_IOVA_LINK,
	RDMA_RW_KUNIT_IOVA_SYNC,
	RDMA_RW_KUNIT_IOVA_DESTROY,
	RDMA_RW_KUNIT_IOVA_NR,
};

int rdma_rw_kunit_iova_watch(void);
void rdma_rw_kunit_iova_unwatch(void);
void rdma_rw_kunit_iova_fail(enum rdma_rw_kunit_iova_call call, unsigned int nth,
			     long value);
unsigned int rdma_rw_kunit_iova_calls(enum rdma_rw_kunit_iova_call call);

bool rdma_rw_kunit_set_fail_nth(unsigned int n);
unsigned int rdma_rw_kunit_fail_nth(void);
bool rdma_rw_kunit_alloc_fails(void);
void rdma_rw_kunit_bh_disable(void);
void rdma_rw_kunit_bh_enable(void);
void rdma_rw_kunit_in_softirq(void (*fn)(void *data), void *data);
int rdma_rw_kunit_run_threads(unsigned int nr, void (*fn)(void *data), void *data);
int rdma_rw_kunit_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			    const struct ib_send_wr **bad_wr);

#endif
