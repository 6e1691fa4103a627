// Package await waits for a state of the world by looking at it again and again,
// for the sandbox and for tests. It waits for nothing that cannot be looked at, and
// never without a bound.
package await
