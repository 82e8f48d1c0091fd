# where the numbers come from
about = fitted to 120 s of a download over Starlink without laser links (MMSys 2024), RTT to pings of its gateway nine days before: not recorded together
# RTT without queues, as --rtt has it; may be left out
rtt = random:21700us..22800us..23700us..25500us..26900us..27900us..28900us..30600us..32500us..33600us..35ms..37300us..38900us..42ms..44100us..48ms..52800us..55500us..62ms..70200us..95600us/7s
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 2.396 2.57 4.433 8.028 16.3 22.77 29.18 36.67 45.41 64.51 104.4 146.7 179.9
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0 0 0 0.8113 0.1887 0
# share of it that oscillates
wave_weight = 0
# period of the oscillation, s
wave_period_s = 1
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.2136 0 0.03809 0
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 103 125.2 158.5 214 666.5 938 1028 1101 1117 1119
# share of the outages that are several gaps in a row
blackout_share = 0
# how many gaps, at the same levels
blackout_gaps = 1 1 1 1 1 1 1 1 1 1
# lengths of these gaps at the same levels, ms
blackout_ms = 101 101 101 101 101 101 101 101 101 101
# mean opportunities per burst at the median rate
burst_mean = 1
# growth of what exceeds one with the rate
burst_exponent = 0
# share of a burst's steps that stay in the same ms
burst_same_ms = 0
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 1 1 1 1 1 1 1 1 1 1
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 100
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 1 1 1 1 1 1 1 1 1 1
# the same in the faster half
gap_fast_excess = 1 1 1 1 1 1 1 1 1 1
