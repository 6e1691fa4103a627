// Package strict reads YAML files field by field into structs with JSON tags, and reports
// every problem with its file, line and path: unknown fields, fields that are there
// twice, values of another type. It knows no configuration and reads no file.
package strict
