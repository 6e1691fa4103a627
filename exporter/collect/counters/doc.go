// Package counters owns dcgm-exporter's counters file: which DCGM fields are
// served, under which name, type and help. It knows every field's name and
// number, finds a file's mistakes by line and column, and embeds the defaults.
// It never reads a device and opens no file.
package counters
