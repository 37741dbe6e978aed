/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C and the Rust half of the loopback suite say to each other.
 */
#ifndef _RDMA_RW_LOOPBACK_H
#define _RDMA_RW_LOOPBACK_H

#include <linux/completion.h>
#include <linux/in.h>
#include <linux/types.h>
#include <rdma/rdma_cm.h>
#include <rdma/rw.h>

/* What a size is a multiple of. */
enum rdma_rw_loopback_unit {
	RDMA_RW_LOOPBACK_BYTE,
	RDMA_RW_LOOPBACK_PAGE,
	/* As many pages as a work request has SGEs. */
	RDMA_RW_LOOPBACK_WR,
	/* As many pages as an MR takes. */
	RDMA_RW_LOOPBACK_MR,
	/* As many bytes as the remote memory has. */
	RDMA_RW_LOOPBACK_ALL,
};

/* A parameter of a case: form, direction and size, or what is made of it. */
struct rdma_rw_loopback_case {
	/* An array of bio_vec, not a scatterlist. */
	bool bvec;
	/* RDMA READ, not WRITE. */
	bool read;
	enum rdma_rw_loopback_unit unit;
	u32 nr;
	/* Bytes that go on top. */
	s32 extra;
	/* Bytes of the list to leave out at its start. */
	u32 offset;
};

/* Where Rust leaves its reason for a failure or for skipping a case. */
struct rdma_rw_loopback_report {
	char text[400];
};

/* loopback.rs: each returns 0, or 1 to skip, or an error. */
#define RDMA_RW_LOOPBACK_SKIP 1

struct rdma_rw_loopback;
typedef int rdma_rw_loopback_body(struct rdma_rw_loopback *loopback,
				  const struct rdma_rw_loopback_case *param,
				  struct rdma_rw_loopback_report *report);

int rdma_rw_loopback_up(struct rdma_rw_loopback **loopback,
			struct rdma_rw_loopback_report *report);
void rdma_rw_loopback_down(struct rdma_rw_loopback *loopback);
rdma_rw_loopback_body rdma_rw_loopback_transfer;
rdma_rw_loopback_body rdma_rw_loopback_offset;
rdma_rw_loopback_body rdma_rw_loopback_siw_offset;
rdma_rw_loopback_body rdma_rw_loopback_chained;
rdma_rw_loopback_body rdma_rw_loopback_in_flight;
rdma_rw_loopback_body rdma_rw_loopback_qp_error;
rdma_rw_loopback_body rdma_rw_loopback_paths;

/* loopback_kunit.c: module parameters, and what is inline in headers. */
int rdma_rw_loopback_address(struct sockaddr_in *address);
bool rdma_rw_loopback_force_mr(void);
bool rdma_rw_loopback_rust(void);
void rdma_rw_loopback_print(const char *text);
void rdma_rw_loopback_init_completion(struct completion *completion);
bool rdma_rw_loopback_wait(struct completion *completion);
struct rdma_cm_id *rdma_rw_loopback_create_id(rdma_cm_event_handler handler,
					      void *context);
struct ib_pd *rdma_rw_loopback_alloc_pd(struct ib_device *device);
struct ib_cq *rdma_rw_loopback_alloc_cq(struct ib_device *device, int nr_cqe);
int rdma_rw_loopback_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr);
int rdma_rw_loopback_post_send(struct ib_qp *qp, const struct ib_send_wr *wr);
struct page *rdma_rw_loopback_alloc_pages(unsigned int order);
void rdma_rw_loopback_free_pages(struct page *page, unsigned int order);
void *rdma_rw_loopback_page_address(const struct page *page);
void rdma_rw_loopback_random(void *buffer, size_t size);

#endif
