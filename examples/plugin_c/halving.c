/* A controller in C: one packet more per round trip, and less of the window when packets are lost.
 *
 *   clang --target=wasm32 -O2 -nostdlib -ffreestanding -I../../crates/guest/include -Wl,--no-entry -o halving.wasm halving.c
 *   cellpace compare --trace lte-driving --cc plugin:halving.wasm --cc plugin:halving.wasm,beta=0.7
 */
#include "cellpace_plugin.h"

CELLPACE_PLUGIN
CELLPACE_PARAMS({"beta", "What a loss leaves of the window", CELLPACE_NUMBER, "RFC 5681, section 3.1", 0.5, 0.1, 0.9})

static uint64_t mss, cwnd;
static double beta;
/* Packets from this number on were sent after the last reduction. */
static uint64_t reduced_at;

void CELLPACE_EXPORT(cellpace_start)(const struct cellpace_setup *setup, struct cellpace_answers *answers)
{
    mss = setup->mss;
    beta = setup->params[0];
    cwnd = 10 * mss;
    answers->permit = cwnd;
}

void CELLPACE_EXPORT(cellpace_on_ack)(const struct cellpace_flow *ack, struct cellpace_answers *answers)
{
    cwnd += (mss * ack->extent + cwnd - 1) / cwnd;
    answers->permit = cwnd;
}

void CELLPACE_EXPORT(cellpace_on_loss)(const struct cellpace_flow *loss, struct cellpace_answers *answers)
{
    /* Packets are sorted: the last one is the newest. */
    if (loss->packets[loss->count - 1].number < reduced_at)
        return;
    uint64_t reduced = (uint64_t)(beta * (double)cwnd);
    cwnd = reduced > 2 * mss ? reduced : 2 * mss;
    reduced_at = loss->next_number;
    answers->permit = cwnd;
}
