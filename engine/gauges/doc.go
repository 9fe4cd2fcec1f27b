// Package gauges has the objects of an informer measured for the gauges of manifests: each step
// measures its object, and turns measure all others. It is pure: it knows no clock and no log.
//
// A [Set] has the gauges of one informer. What its objects add up to is in package measure.
package gauges
