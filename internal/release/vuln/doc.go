// Package vuln runs govulncheck and never takes "could not look" for "found
// nothing": an answer is clean, found, or not checked with the reason.
package vuln
