// Package loop turns the wheel: observe, check, plan, persist what the planner
// must remember, act, say why. It owns the order of these, the pace, and what is
// published about a round. It decides nothing and writes nothing but memory,
// status and Events.
package loop
