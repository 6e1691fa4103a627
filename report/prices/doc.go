// Package prices reads what a card costs in an hour, by model, on demand or spot,
// from a YAML file that says where its figures come from and of which day they
// are. It knows no price itself.
package prices
