// Package render formats figures, equally in every output form. The forms are the
// packages below it: html, md, csv and jsonout.
package render
