//go:build tools

// Package tools names the program that build.sh compiles, so that go.mod keeps its module.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
