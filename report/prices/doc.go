// Package prices reads GPU prices per hour from a YAML file: by model, for on-demand and spot. The file
// states the source and date of its prices.
package prices
