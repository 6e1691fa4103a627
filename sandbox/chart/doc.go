// Package chart has the tests of the Helm chart on the real control plane: what
// the API server says of every combination of values, whom Pod Security admits,
// and the chart installed by Helm itself, with our programs running as processes
// with what its pods say and no more rights than it gives.
package chart
