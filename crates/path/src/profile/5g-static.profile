# where the numbers come from
about = fitted to 7269 s of downloads at rest (MMSys 2020, seconds with 5G only), RTT to the pings between them: not recorded together
# RTT without queues, as --rtt has it; may be left out
rtt = random:64ms..64ms..65ms..65ms..65ms..66ms..67ms..68ms..69ms..70ms..70ms..71ms..71ms..72ms..72ms..72ms..72ms..73ms..73ms..74ms..86ms/23600ms
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 0.1429 0.2144 0.4525 3.93 11.79 17.62 28.58 65.97 144.2 218.8 259 290.9 315.2
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0 0 0 0.265 0.2975 0.4375
# share of it that oscillates
wave_weight = 0
# period of the oscillation, s
wave_period_s = 1
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.09392 0.01333 0.007879 0.01317
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 833 983 1001 1001 1020 3506 7246 12340 16510 17060
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
