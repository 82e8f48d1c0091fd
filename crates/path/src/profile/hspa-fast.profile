# where the numbers come from
about = fitted to 300 s of a 3G HSPA+ downlink at 120 km/h in the UAE, as published with ALCC
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 3.19 4.133 5.11 6.276 8.066 11.88 15.63 19.77 23.46 25.89 28.09 30.04 31.64
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0 0.03633 0.0247 0 0.1776 0.7613
# share of it that oscillates
wave_weight = 0
# period of the oscillation, s
wave_period_s = 1
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.1525 0.02478 0 0
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 102 104.1 107.2 109.5 122.2 144.3 151.6 157.5 158.9 159
# share of the outages that are several gaps in a row
blackout_share = 0.2
# how many gaps, at the same levels
blackout_gaps = 2 2 2 2 2 2 2 2 2 2
# lengths of these gaps at the same levels, ms
blackout_ms = 122 133.2 150 178 206 222.8 228.4 232.9 233.9 234
# mean opportunities per burst at the median rate
burst_mean = 7.003
# growth of what exceeds one with the rate
burst_exponent = 0.6655
# share of a burst's steps that stay in the same ms
burst_same_ms = 0.8672
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 0.0007807 0.1161 0.2479 0.5652 1.129 2.094 3.01 6.019 13.61 16.9
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 3391
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 0.001387 0.001387 0.1534 0.4469 1.151 2.403 3.495 6.685 11.71 14.46
# the same in the faster half
gap_fast_excess = 0.01302 0.01302 0.01302 0.5735 1.134 2.197 3.434 6.855 14.37 21.77
