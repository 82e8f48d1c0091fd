# where the numbers come from
about = not fitted: assumed from published ranges of LTE downlinks at rest (10 to 30 Mbit/s, little fading, rare short outages)
# rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s
rate_mbps = 5 7 9 11 13 15.5 18 20.5 23 25.5 28 30 32
# shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s
memory_weight = 0.1 0.15 0.2 0.15 0.2 0.2
# share of it that oscillates
wave_weight = 0
# period of the oscillation, s
wave_period_s = 1
# after which it has forgotten its phase, s
wave_coherence_s = 1
# outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above
outage_per_s = 0.01 0.002 0.001 0.0005
# lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms
outage_ms = 101 105 115 140 200 280 350 500 700 800
# share of the outages that are several gaps in a row
blackout_share = 0
# how many gaps, at the same levels
blackout_gaps = 1 1 1 1 1 1 1 1 1 1
# lengths of these gaps at the same levels, ms
blackout_ms = 101 101 101 101 101 101 101 101 101 101
# mean opportunities per burst at the median rate
burst_mean = 6
# growth of what exceeds one with the rate
burst_exponent = 0.8
# share of a burst's steps that stay in the same ms
burst_same_ms = 0.8
# burst size beyond 1 relative to its mean, at the same levels
burst_excess = 0 0.05 0.2 0.6 1.35 2.3 3.05 4.7 7 9
# in which time the scheduler makes up for what it served too little or too much, ms
catch_up_ms = 80
# gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time
gap_slow_excess = 0 0.05 0.2 0.6 1.35 2.3 3.05 4.7 7 9
# the same in the faster half
gap_fast_excess = 0 0.05 0.2 0.6 1.35 2.3 3.05 4.7 7 9
