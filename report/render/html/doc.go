// Package html writes the report as one HTML page: no script, no network, pictures as
// inline SVG, readable on a phone, in dark mode and on paper. Equal reports give equal
// bytes.
package html
