// Package layers holds the one structural rule: a package imports only
// lower layers. The table is data, the test is the rule; nothing else lives
// here.
package layers
