// Package await polls a condition until it holds, for the sandbox and for tests.
// Every wait has a bound.
package await
