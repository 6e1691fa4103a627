// Package floors holds the house's one structural rule: a package imports only
// lower floors. The table is data, the test is the rule; nothing else lives
// here.
package floors
