// Package metric is the catalogue: the name, type, unit, labels, help and
// stability of every series that any part of the house emits or reads. Exporter,
// adapter, dashboards, rules, report and docs read names here and write none of
// their own. It registers nothing and holds no values.
package metric
