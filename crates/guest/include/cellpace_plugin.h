/* A controller as a WebAssembly module, for `--cc plugin:FILE.wasm` of cellpace. Version 1 of the interface.
 *
 *   clang --target=wasm32 -O2 -nostdlib -ffreestanding -Wl,--no-entry -o mine.wasm mine.c
 *
 * A module exports its memory, cellpace_abi and cellpace_start, and of the other functions those that it wants to be
 * called; it imports nothing. Each flow has an instance of its own, so that plain variables hold what a flow knows. Times
 * and spans are in ns, sizes in bytes with headers. Answers stay as they are until they are written again.
 *
 * A call that traps, takes more than 100 million steps or 16 MB of memory ends the control of its flow.
 */
#ifndef CELLPACE_PLUGIN_H
#define CELLPACE_PLUGIN_H

#include <stdint.h>

#define CELLPACE_ABI 1

/* In place of a time or size that is not there or not bounded. */
#define CELLPACE_NONE UINT64_MAX

/* Makes a function one that cellpace calls. */
#define CELLPACE_EXPORT(name) __attribute__((export_name(#name))) name

/* Once in a module: the version that it is written for. */
#define CELLPACE_PLUGIN \
    uint32_t CELLPACE_EXPORT(cellpace_abi)(void) { return CELLPACE_ABI; }

/* Once in a module with parameters: their declarations, as in
 * CELLPACE_PARAMS({"beta", "what a loss leaves of the window", CELLPACE_NUMBER, "RFC 5681", 0.5, 0.1, 0.9}) */
#define CELLPACE_PARAMS(...) \
    static const struct cellpace_param cellpace_declared[] = {__VA_ARGS__, {0}}; \
    const struct cellpace_param *CELLPACE_EXPORT(cellpace_params)(void) { return cellpace_declared; }

enum cellpace_kind {
    CELLPACE_NUMBER = 0,
    CELLPACE_INTEGER = 1,
    CELLPACE_BOOL = 2,  /* 0 or 1 */
    CELLPACE_SPAN = 3,  /* in ns */
    CELLPACE_BYTES = 4,
    CELLPACE_RATE = 5,  /* in bytes per second */
};

struct cellpace_param {
    const char *key;
    const char *help;
    uint32_t kind;
    const char *source; /* may be 0 */
    double value;       /* the default; NaN: not given */
    double low, high;
};

struct cellpace_setup {
    uint64_t mss;   /* bytes of a full packet */
    uint64_t start;
    uint64_t seed;  /* of the flow's random numbers */
    uint64_t count;
    double params[]; /* in the order of their declarations */
};

struct cellpace_packet {
    uint64_t number, bytes, sent_at;
    uint64_t rtt, received_at; /* of an acked packet */
    uint64_t flags;            /* bit 0: the sender had run out of data; bits 8 and 9: ECN on arrival, 3 is a mark */
    uint64_t stamp[4];         /* what cellpace_on_sent left on it */
};

/* An ack or a loss, with its packets, or a mark. */
struct cellpace_flow {
    uint64_t now;
    uint64_t prior_in_flight, in_flight; /* before and after */
    uint64_t next_number;                /* of the packet that leaves next */
    uint64_t srtt;                       /* CELLPACE_NONE before the first sample */
    uint64_t rtt_variation, rtt_latest, rtt_minimum;
    uint64_t rto_floor, rto_rule;
    uint64_t count;  /* packets; of a mark: how many are marked, and none follow */
    uint64_t extent; /* their bytes; of a mark: the highest number of a marked packet */
    struct cellpace_packet packets[];
};

struct cellpace_sent {
    uint64_t now, number, bytes;
    uint64_t in_flight; /* with this packet */
    uint64_t flags;     /* bit 0: nothing more to send; bit 1: data that was sent before */
};

struct cellpace_timeout {
    uint64_t now, prior_in_flight, in_a_row, next_number;
};

struct cellpace_spurious {
    uint64_t now;
    uint64_t count; /* 0: a timeout was none; 1: the packet behind was not lost */
    struct cellpace_packet packets[];
};

struct cellpace_block {
    uint64_t now, waits, stamp[4];
};

struct cellpace_frame {
    uint64_t now, bytes, waiting, interval;
};

struct cellpace_answers {
    uint64_t permit;       /* bytes that may be in flight; of a budget: that may leave */
    uint64_t is_budget;
    uint64_t cwnd;         /* the window to show; 0: permit */
    double pacing_rate;    /* bytes per second; infinity: no pacing */
    uint64_t pacing_burst;
    uint64_t rto;          /* 0: RFC 6298's */
    uint64_t deadline;     /* when cellpace_on_deadline is to be called; CELLPACE_NONE: never */
    double target_rate;    /* bytes per second for an encoder; negative: none */
    uint64_t ecn;          /* of packets: 0, 1 for ECT(1), 2 for ECT(0); set by cellpace_start */
    uint64_t stamp[4];     /* on_sent leaves these on the packet */
};

/* What a module may export, each by CELLPACE_EXPORT. */
void cellpace_start(const struct cellpace_setup *, struct cellpace_answers *);
void cellpace_on_sent(const struct cellpace_sent *, struct cellpace_answers *);
void cellpace_on_ack(const struct cellpace_flow *, struct cellpace_answers *);
void cellpace_on_loss(const struct cellpace_flow *, struct cellpace_answers *);
void cellpace_on_mark(const struct cellpace_flow *, struct cellpace_answers *);
void cellpace_on_timeout(const struct cellpace_timeout *, struct cellpace_answers *);
void cellpace_on_spurious(const struct cellpace_spurious *, struct cellpace_answers *);
void cellpace_on_block(const struct cellpace_block *, struct cellpace_answers *);
void cellpace_on_frame(const struct cellpace_frame *, struct cellpace_answers *);
void cellpace_on_deadline(uint64_t now, struct cellpace_answers *);
void cellpace_on_path_change(uint64_t now, struct cellpace_answers *);
void cellpace_on_ecn_failed(uint64_t now, struct cellpace_answers *);

#endif
