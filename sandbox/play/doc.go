// Package play plays a story from its text to its summary: it has the programs
// built, brings up the world, starts the traffic, follows the expectations and draws. It owns the order of these and the
// clock; what each is belongs to the packages it calls.
package play
