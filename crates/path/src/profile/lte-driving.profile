# where the numbers come from
about = fitted to 786 s of the AT&T LTE downlink, driving in the US, as published with Mahimahi
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 0.4885 0.6652 0.9514 1.574 2.411 3.774 5.817 7.159 8.055 9.155 10.9 12.7 15.52
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0 0 0.04479 0 0 0.9552
# share of it that oscillates
wave_weight = 0
# period of the oscillation, s
wave_period_s = 1
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.393 0.1631 0.1405 0.0663
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 101 106 118.5 146.5 252.2 336.1 414.3 988.1 1462 1515
# share of the outages that are several gaps in a row
blackout_share = 0.1398
# how many gaps, at the same levels
blackout_gaps = 2 2 2 2 5 9.4 10.4 10.88 10.99 11
# lengths of these gaps at the same levels, ms
blackout_ms = 105 141.4 284 988 1000 1012 1012 1013 1014 1014
# mean opportunities per burst at the median rate
burst_mean = 2.413
# growth of what exceeds one with the rate
burst_exponent = 1.377
# share of a burst's steps that stay in the same ms
burst_same_ms = 0.6773
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 0.0157 0.0157 0.4207 0.5875 1.345 2.041 2.851 4.876 7.659 14.26
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 77.81
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 0.001729 0.001729 0.2768 0.6802 1.304 2.229 2.841 4.628 8.665 12.1
# the same in the faster half
gap_fast_excess = 0.003991 0.003991 0.003991 0.3175 0.631 2.503 4.636 9.096 19.68 25.63
