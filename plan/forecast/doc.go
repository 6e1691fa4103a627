// Package forecast estimates a quantity (queue depth, requests per second,
// replicas) some time ahead, and how reliable that estimate is.
//
// It tests a few plain methods on the series' own past, from many places in it
// and for the requested horizon, takes the one with the smallest error, and
// makes the interval from that method's errors. Where the past is too short,
// too sparse or too old for that, the answer is "not enough data" and why.
//
// It fills no gaps, reads no clock, uses no randomness and decides nothing: the
// planner does.
package forecast
