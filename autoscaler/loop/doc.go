// Package loop runs the reconciles: observe, check, plan, persist the planner's state,
// act, publish the reasons. It owns the order of these steps, the pace, and the output
// of a reconcile: metrics, status and Events. The decisions are the planner's.
package loop
