// Package docs holds the pages that users read against the product: each block of
// each page is applied, checked, parsed or run, each link leads somewhere, and each
// page can be found.
//
// Blocks are judged by kind (see Kind). What cannot be run stands in one table of
// the test, with the reason, and an entry that no page has is an error. The package
// writes no page and is no part of any program.
package docs
