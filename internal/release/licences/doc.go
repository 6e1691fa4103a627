// Package licences collects the licence texts of the modules in a binary: most
// of them ask to travel with it. It reads what Go has downloaded to build it.
package licences
