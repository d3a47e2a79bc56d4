// Package helm tests the chart of tailbox: helm finds no fault, the API's own types take what it renders, and tailbox takes the configuration. It is a
// module of its own, which keeps Helm and Kubernetes out of the product's go.mod.
package helm
