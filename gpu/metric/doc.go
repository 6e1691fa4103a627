// Package metric is the catalogue: the name, type, unit, labels, help and
// stability of every series that any program emits or reads. Exporter, adapter,
// dashboards, rules, report and docs use these names and define none of their
// own. It registers nothing and has no values.
package metric
