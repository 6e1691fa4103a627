// Package docs holds the pages that users read against the product: queries are
// parsed and their names looked up, files are given to the programs that read them,
// commands' programs, subcommands and flags must exist, each link leads somewhere, and
// each page can be found. sandbox/chart has the API server judge the manifests.
//
// Blocks are judged by kind (see Kind). The package writes no page and is no part of
// any program.
package docs
