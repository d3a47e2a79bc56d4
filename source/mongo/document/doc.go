// Package document makes messages of documents. It reads BSON where it lies, without a copy, and asks no server.
package document
