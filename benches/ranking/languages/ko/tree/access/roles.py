from dataclasses import dataclass, field


# 운영 인력 한 명에게 붙는 역할을 나타낸다. 상위 역할을 가리키는 parent를 따라가면
# 물려받은 권한까지 모두 알 수 있다.
@dataclass
class Role:
    name: str
    grants: set[str] = field(default_factory=set)
    parent: "Role | None" = None


# 역할의 계층을 끝까지 거슬러 올라가며 권한을 하나의 집합으로 합친다.
# 설정 실수로 계층이 순환하면 무한 루프에 빠지므로 이미 지나온 역할은 다시 보지 않는다.
def effective_grants(role):
    seen, out = set(), set()
    while role is not None and role.name not in seen:
        seen.add(role.name)
        out |= role.grants
        role = role.parent
    return out


# 현장 기사에게 특정 지점의 보관함만 임시로 열 수 있게 해 준다.
# 만료 시각이 지나면 별도의 회수 절차 없이 저절로 무효가 된다.
def lend_temporary_access(store, worker_id, jijeom_id, until):
    entry = {"who": worker_id, "branch": jijeom_id, "until": until}
    # 같은 기사에게 두 번 빌려주면 나중 것이 이긴다
    store[(worker_id, jijeom_id)] = entry
    return entry


# 퇴사자가 갖고 있던 권한을 한꺼번에 거두어들이고, 몇 건을 지웠는지 돌려준다.
def revoke_everything(store, worker_id):
    doomed = [key for key in store if key[0] == worker_id]
    for key in doomed:
        del store[key]
    return len(doomed)
