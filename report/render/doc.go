// Package render writes a report as a page and as JSON, and formats its figures.
package render
