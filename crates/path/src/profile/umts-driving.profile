# where the numbers come from
about = fitted to 928 s of the T-Mobile UMTS downlink, driving in the US, as published with Mahimahi
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 0.1453 0.1763 0.2597 0.4154 0.7115 1.275 2.011 2.649 3.435 5.076 6.671 7.142 7.178
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0.007038 0.01168 0.02082 0.2193 0.4953 0.2459
# share of it that oscillates
wave_weight = 0
# period of the oscillation, s
wave_period_s = 1
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.7571 0.2759 0.1503 0.0405
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 102 109 131.5 239.5 480.5 644.1 1304 3937 5571 5753
# share of the outages that are several gaps in a row
blackout_share = 0.3704
# how many gaps, at the same levels
blackout_gaps = 2 2 2 2.5 4 6 10.1 27.86 36.99 38
# lengths of these gaps at the same levels, ms
blackout_ms = 101 119 198.5 337.5 669 1169 1868 3416 4813 4941
# mean opportunities per burst at the median rate
burst_mean = 1.673
# growth of what exceeds one with the rate
burst_exponent = 1.335
# share of a burst's steps that stay in the same ms
burst_same_ms = 0.5569
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 0.05364 0.05364 0.05364 0.9533 1.549 2.089 2.384 3.447 5.213 9.955
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 82.06
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 0.0004495 0.3748 0.5343 0.9225 1.264 1.711 2.07 2.95 4.689 5.839
# the same in the faster half
gap_fast_excess = 0.004985 0.1418 0.5524 0.9932 1.23 1.732 2.331 2.884 4.899 8.114
