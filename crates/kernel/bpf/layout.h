/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * What user space and the program share. src/driver/layout.rs is the same in Rust; a test
 * compares the sizes. LAYOUT grows with every change that an older client would misread.
 */
#ifndef CELLPACE_LAYOUT_H
#define CELLPACE_LAYOUT_H

#define MAGIC 0x65636170 /* "pace" */
#define LAYOUT 3

/* Controlling processes at a time. */
#define SLOTS 16
/* Of each slot, unless the loader is told otherwise. A power of two and whole pages. */
#define RING_BYTES (1 << 20)
/* Sockets under control at a time. */
#define MAX_CONTROLS 65536

/* After this long without a heartbeat a controller is taken for dead. */
#define HEARTBEAT_NS 1000000000ULL

/* Policies of a socket. */
enum {
	/* The window is what user space says, whatever gets lost. */
	POLICY_HOLD = 0,
	/* RFC 5681 with the window as an upper bound. */
	POLICY_FOLLOW = 1,
};

/* What user space wants of a socket; the key is the socket's cookie. */
struct control {
	u64 window; /* bytes in flight, of payload */
	/*
	 * Instead of a window, unless 0: so many bytes of payload may have been sent since the
	 * connection began. An acknowledgment makes no room then.
	 */
	u64 limit;
	u64 pacing; /* bytes a second; 0: not paced */
	u64 owner; /* of the slot when this was written: a later owner's heartbeat does not count */
	u32 policy;
	u32 slot;
};

/* A controlling process. */
struct slot {
	u64 owner; /* 0: free; else the time of its claim in ms << 20 | random bits */
	u64 beat; /* last heartbeat, CLOCK_MONOTONIC in ns */
	u64 dropped; /* records that found no room */
	u32 pid;
	u32 reserved;
	/* Until then, CLOCK_MONOTONIC in ns, it looks by itself and need not be woken. */
	u64 resting_until;
	u64 unused[3]; /* a cache line for each */
};

/* The first 24 bytes keep their meaning in every version. */
struct shared {
	u32 magic;
	u32 layout;
	char name[16]; /* of the congestion control */
	char version[32]; /* of the cellpace that installed it */
	u32 slots;
	u32 ring_bytes;
	u32 removed; /* not 0: uninstalled, sockets that are left look after themselves */
	u32 max_controls;
	u64 sockets; /* that use the congestion control */
	u64 fallbacks; /* times a socket lost its controller */
	u64 unused[3];
	struct slot slot[SLOTS];
};

enum {
	RECORD_ACK = 1, /* an acknowledgment was worked in */
	RECORD_STATE = 2, /* the state of loss recovery changed */
	RECORD_RELEASE = 3, /* the socket left: closed, or another congestion control */
};

enum {
	/* The socket looks after itself: no heartbeat, or policy `follow`. */
	RECORD_FALLBACK = 1,
	/* The receiver is asked to acknowledge each packet at once. */
	RECORD_PROMPT = 2,
};

/* Totals are since the connection began and wrap around. */
struct record {
	u64 cookie;
	u64 time; /* CLOCK_MONOTONIC in ns */
	u64 bytes_acked; /* total, cumulatively acknowledged */
	u8 kind;
	u8 state; /* TCP_CA_*, 0 Open to 4 Loss */
	u8 flags;
	u8 reserved;
	u32 acked; /* packets that this ack acknowledged, SACK included */
	u32 delivered; /* packets, total */
	u32 retransmitted; /* packets, total */
	u32 rtt_us; /* sample; 0: none */
	u32 mss; /* bytes */
	u32 cwnd; /* packets */
	u32 unsent; /* bytes that wait in the socket */
	u32 outstanding; /* bytes sent and not cumulatively acknowledged */
	u32 sacked; /* packets of those that were selectively acknowledged */
	u32 highest_sacked; /* bytes to the end of the last sacked one; 0: none is */
	u32 unused;
};

_Static_assert(sizeof(struct control) == 40, "as in layout.rs");
_Static_assert(sizeof(struct slot) == 64, "as in layout.rs");
_Static_assert(sizeof(struct shared) == 112 + SLOTS * 64, "as in layout.rs");
_Static_assert(sizeof(struct record) == 72, "as in layout.rs");

#endif
