# where the numbers come from
about = fitted to 300 s of a 3G HSPA+ downlink, walking along a beachfront in the UAE, four phones merged, as published with ALCC
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 0.8452 1.249 2.903 4.942 7.196 9.541 11.42 11.62 11.92 13.95 16.8 20.56 22.84
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0.02684 0.04524 0.02329 0.5082 0.2732 0.1232
# share of it that oscillates
wave_weight = 0
# period of the oscillation, s
wave_period_s = 1
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.06896 0 0 0
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 110 110 110 110 110 110 110 110 110 110
# share of the outages that are several gaps in a row
blackout_share = 0.5
# how many gaps, at the same levels
blackout_gaps = 3 3 3 3 3 3 3 3 3 3
# lengths of these gaps at the same levels, ms
blackout_ms = 124 132.6 145.5 167 184.5 195 198.5 201.3 201.9 202
# mean opportunities per burst at the median rate
burst_mean = 3.856
# growth of what exceeds one with the rate
burst_exponent = 0.9011
# share of a burst's steps that stay in the same ms
burst_same_ms = 0.7414
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 0.007311 0.007311 0.2122 0.6619 1.322 2.308 2.968 4.685 8.193 12.48
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 189.2
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 0.00544 0.00544 0.1377 0.5958 1.283 2.386 3.219 5.288 9.133 14.25
# the same in the faster half
gap_fast_excess = 0.04746 0.04746 0.04746 0.7284 1.409 2.147 2.894 5.089 8.444 12.82
