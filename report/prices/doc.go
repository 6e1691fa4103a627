// Package prices reads prices of GPUs per hour, by model, on demand or spot, from a YAML
// file that states their source and date.
package prices
