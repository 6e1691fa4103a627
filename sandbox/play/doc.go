// Package play plays a story from its text to its summary: it has the programs built, starts the world and
// the traffic, follows the expectations and draws. It owns the order of these steps and the clock. Other
// packages implement the steps.
package play
