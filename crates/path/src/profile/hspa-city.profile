# where the numbers come from
about = fitted to 300 s of a 3G HSPA+ downlink, driving in a city in the UAE, four phones merged, as published with ALCC
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 1.921 2.549 3.351 4.269 5.35 7.185 9.042 10.64 11.8 12.73 13.62 14.45 15.32
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0 0 0.1227 0 0.3118 0.5656
# share of it that oscillates
wave_weight = 0
# period of the oscillation, s
wave_period_s = 1
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.034 0 0.01325 0
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 220 234.8 257 294 331 353.2 360.6 366.5 367.9 368
# share of the outages that are several gaps in a row
blackout_share = 0
# how many gaps, at the same levels
blackout_gaps = 1 1 1 1 1 1 1 1 1 1
# lengths of these gaps at the same levels, ms
blackout_ms = 101 101 101 101 101 101 101 101 101 101
# mean opportunities per burst at the median rate
burst_mean = 3.324
# growth of what exceeds one with the rate
burst_exponent = 0.973
# share of a burst's steps that stay in the same ms
burst_same_ms = 0.7621
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 0.005824 0.005824 0.005824 0.6297 1.323 2.39 3.185 5.363 10.55 18.51
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 10000
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 0.004536 0.004536 0.242 0.6081 1.288 2.255 3.086 5.135 8.881 13.47
# the same in the faster half
gap_fast_excess = 0.02387 0.02387 0.02387 0.6379 1.323 2.327 3.306 5.538 8.765 12.16
