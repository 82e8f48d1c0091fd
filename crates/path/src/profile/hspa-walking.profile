# where the numbers come from
about = fitted to 300 s of a 3G HSPA+ downlink, walking on a campus in the UAE, four phones merged, as published with ALCC
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 1.557 2.15 2.854 4.123 5.543 7.55 9.145 10.52 11.81 13.24 15.02 17.43 20.48
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0.2926 0 0 0.2012 0.1463 0.1479
# share of it that oscillates
wave_weight = 0.212
# period of the oscillation, s
wave_period_s = 1.1
# after which it has forgotten its phase, s
wave_coherence_s = 3
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0 0.02228 0 0
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 122 122 122 122 122 122 122 122 122 122
# share of the outages that are several gaps in a row
blackout_share = 0
# how many gaps, at the same levels
blackout_gaps = 1 1 1 1 1 1 1 1 1 1
# lengths of these gaps at the same levels, ms
blackout_ms = 101 101 101 101 101 101 101 101 101 101
# mean opportunities per burst at the median rate
burst_mean = 3.575
# growth of what exceeds one with the rate
burst_exponent = 1.113
# share of a burst's steps that stay in the same ms
burst_same_ms = 0.7673
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 0.005478 0.005478 0.2105 0.5881 1.277 2.264 3.185 5.246 9.861 13.8
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 10000
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 0.004514 0.004514 0.2607 0.5791 1.223 2.298 3.13 5.318 9.921 14.46
# the same in the faster half
gap_fast_excess = 0.01538 0.01538 0.01538 0.5871 1.272 2.392 3.446 5.833 9.735 14.32
