"""`vpm verify`: checks the service's statements against a node only.

No database, no service and no trust in the document: addresses come from the deployment file of the chain the node
serves, everything else from logs and views at one block. `claims` records each finding, `chain` reads the chain;
`stock`, `agent`, `relay`, `proof` and `attestation` check the kinds of document that `subject` recognizes.
"""
