# where the numbers come from
about = fitted to 300 s of a 3G HSPA+ downlink, driving on a highway in the UAE, four phones merged, as published with ALCC
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 1.243 1.659 2.337 3.174 3.995 4.913 5.943 7.131 8.452 9.684 10.95 12.62 13.78
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0 0.007094 0.2957 0.4079 0.2707 0.01862
# share of it that oscillates
wave_weight = 0
# period of the oscillation, s
wave_period_s = 1
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.3206 0.04547 0.04038 0
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 105 106.1 111.5 150.5 159.2 169.9 192.5 214.5 219.5 220
# share of the outages that are several gaps in a row
blackout_share = 0.1429
# how many gaps, at the same levels
blackout_gaps = 2 2 2 2 2 2 2 2 2 2
# lengths of these gaps at the same levels, ms
blackout_ms = 104 114.2 129.5 141 144.5 145.4 145.7 145.9 146 146
# mean opportunities per burst at the median rate
burst_mean = 3.356
# growth of what exceeds one with the rate
burst_exponent = 1.202
# share of a burst's steps that stay in the same ms
burst_same_ms = 0.8181
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 0.003142 0.003142 0.003142 0.4893 1.219 2.444 3.515 6.629 11.88 16.61
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 1002
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 0.001117 0.001117 0.1862 0.5488 1.213 2.194 3.017 6.195 13.44 17.2
# the same in the faster half
gap_fast_excess = 0.002354 0.002354 0.2033 0.4475 1.128 2.35 3.594 6.529 11.22 17.63
