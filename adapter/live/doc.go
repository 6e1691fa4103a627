// Package live owns the configuration in force: it reloads the file when its
// contents change, keeps the last good version of a rule that is now bad, and
// reports each rule's state. It serves nothing and queries no Prometheus; it
// passes clients and rules to the cache.
package live
