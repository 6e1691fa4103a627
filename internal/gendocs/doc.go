// Command gendocs writes docs/metrics.md from gpu/metric and docs/reasons.md
// from plan.Reasons. It runs from the module's root and writes nothing else.
package main
