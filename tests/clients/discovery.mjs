// What a directory of paid interfaces finds here, by the package such directories use. First argument: the origin.
// Standard output: {"discovered", "endpoint"} as JSON.

import { checkEndpointSchema, discoverOriginSchema, GuidanceMode } from "@agentcash/discovery";

const origin = process.argv[2];
const discovered = await discoverOriginSchema({ target: origin, guidance: GuidanceMode.Auto });
const endpoint = await checkEndpointSchema({ url: `${origin}/api/agent/v1/trade`, probe: false });
console.log(JSON.stringify({ discovered, endpoint }));
