# where the numbers come from
about = fitted to 300 s of a 3G HSPA+ downlink in the UAE, four phones at 5 Mbit/s each merged, as published with MDI
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 4.04 4.537 7.248 11.56 15.89 17.96 20.76 22.86 23.68 25.27 27.55 34.19 38.74
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0 0.1989 0.293 0 0 0
# share of it that oscillates
wave_weight = 0.5081
# period of the oscillation, s
wave_period_s = 3
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.1047 0.02281 0.01357 0.02009
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 150 302.6 444.5 1000 1002 1006 1007 1008 1008 1008
# share of the outages that are several gaps in a row
blackout_share = 0
# how many gaps, at the same levels
blackout_gaps = 1 1 1 1 1 1 1 1 1 1
# lengths of these gaps at the same levels, ms
blackout_ms = 101 101 101 101 101 101 101 101 101 101
# mean opportunities per burst at the median rate
burst_mean = 8.191
# growth of what exceeds one with the rate
burst_exponent = 0.8937
# share of a burst's steps that stay in the same ms
burst_same_ms = 0.8823
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 0.001305 0.1081 0.2697 0.6722 1.369 2.226 2.779 4.183 6.985 11.07
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 87.48
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 0.006518 0.006518 0.2042 0.5222 1.205 2.585 3.204 5.192 9.686 16.19
# the same in the faster half
gap_fast_excess = 0.02048 0.02048 0.02048 0.5696 1.255 2.781 2.945 5.869 7.644 12.67
