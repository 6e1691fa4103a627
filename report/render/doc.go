// Package render writes a report as an HTML page.
package render
