// Package docs compares the documentation with the product. Queries are parsed and their names looked up,
// files are read by the programs that they are for, the programs, subcommands and flags of commands must
// exist, every link must lead somewhere, and every page must be reachable. sandbox/chart sends the manifests
// to the API server.
//
// The kind of a block decides how it is checked (see Kind). The package writes no page and is not part of any
// program.
package docs
