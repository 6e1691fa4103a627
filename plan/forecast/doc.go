// Package forecast says how much of something (queue depth, requests per second,
// replicas) is to be expected some time ahead, and how far that can be relied on.
//
// It tries a handful of plain methods on the series' own past, from many places
// in it and for the very horizon asked for, takes the one that erred least, and
// makes the interval from how much that one erred. Where the past is too short, too
// sparse or too old to say so, the answer is "not enough data" and why.
//
// It never fills a hole, never reads a clock, never draws a number by chance, and
// never decides: what a forecast is worth is the planner's business.
package forecast
