// Command gendocs writes docs/metrics.md from gpu/metric, docs/reasons.md from
// plan.Reasons, docs/doctor.md from the doctor's checks and docs/signals.md from the adapter's built-in rules. It runs from the module's root and writes nothing else.
package main
