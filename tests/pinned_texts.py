"""Plain texts whose feeling nobody would argue about: the shipped model must read each of them."""

PINNED = {
    "achievement": (
        "석 달 만에 드디어 토익 900점을 넘겼다",
        "밤새 매달린 버그를 결국 내 손으로 잡아냈다",
        "처음으로 하프 마라톤을 끝까지 뛰었다!",
        "I finally finished my thesis after four years of work",
        "Ran ten kilometres without stopping for the first time in my life",
        "After months of practice I can play the whole piece by heart"),
    "recognition": (
        "부장님이 회의에서 내 보고서가 최고라고 칭찬해 주셨다",
        "올해의 우수 사원으로 내 이름이 불렸다",
        "선생님이 내 그림을 교실 앞에 걸어 주셨다",
        "My manager told the whole team that my idea saved the project",
        "The teacher read my essay out loud as an example for everyone",
        "They gave me the award for best volunteer of the year"),
    "security": (
        "검사 결과가 정상이라는 말을 듣고 한숨 돌렸다",
        "긴 하루 끝에 집에 와서 이불 속에 누우니 마음이 편하다",
        "아이가 무사히 돌아와서 이제야 안심이 된다",
        "The test came back clear and I can finally breathe again",
        "Home at last, door locked, kettle on, nothing to worry about tonight",
        "The storm has passed and everyone is safe"),
    "autonomy": (
        "이제부터 내 일정은 내가 정한다",
        "퇴사하고 내 마음대로 사는 하루가 시작됐다",
        "누구 허락도 없이 혼자 떠나는 여행",
        "Nobody tells me when to get up any more, I work for myself now",
        "I said no, and from now on I decide what I do with my weekends",
        "My own flat, my own rules"),
    "connection": (
        "힘들 때마다 곁에 있어 주는 친구들이 고맙다",
        "엄마가 말없이 안아 주셔서 마음이 따뜻해졌다",
        "오랜만에 온 가족이 모여 저녁을 먹으니 참 좋다",
        "So grateful for my friends who stayed with me all night at the hospital",
        "My grandmother held my hand and I felt so loved",
        "The dog fell asleep with his head on my lap"),
    "joy": (
        "콘서트에서 목이 쉬도록 노래하고 춤췄다 진짜 신난다",
        "친구들이랑 배꼽 빠지게 웃었다ㅋㅋㅋ",
        "첫눈이다! 강아지랑 눈밭에서 뛰어놀았다",
        "We laughed so hard at dinner that I nearly fell off my chair",
        "Best concert ever, I danced until my feet hurt!",
        "Snow day! We built a huge snowman and had a snowball fight"),
    "curiosity": (
        "문어는 어떻게 그렇게 빨리 색을 바꾸는 걸까?",
        "저 골목 끝에는 뭐가 있을지 궁금하다",
        "블랙홀 안은 도대체 어떻게 생겼을까",
        "I wonder how birds know which way to fly in winter",
        "What would happen if the moon suddenly disappeared?",
        "How does this old radio even work? I want to take it apart"),
    "sadness": (
        "할머니가 돌아가신 뒤로 집이 텅 빈 것 같다",
        "그 사람이 떠나고 나니 하루 종일 눈물만 난다",
        "나만 빼고 다들 놀러 갔다는 걸 알았다. 외롭다",
        "I miss my dad every single day since he died",
        "She left and the apartment feels so empty now",
        "I didn't get in, and I just sat on the bed and cried"),
    "anger": (
        "약속을 또 어기다니 정말 화가 난다",
        "자기 잘못을 나한테 뒤집어씌우는 게 말이 되냐",
        "새치기하고도 뻔뻔하게 큰소리치는 꼴을 보니 열받는다",
        "He blamed me for his own mistake in front of everyone, how dare he",
        "I'm sick of them lying to us, this is outrageous",
        "The neighbours were drilling at midnight again and I am furious"),
    "anxiety": (
        "내일 면접인데 떨려서 잠이 안 온다",
        "검사 결과가 나쁘게 나오면 어떡하지",
        "통장 잔고를 볼 때마다 다음 달이 걱정된다",
        "I have to give a speech tomorrow and I can't stop shaking",
        "What if I lose my job and can't pay the rent?",
        "There was a strange noise downstairs and I'm scared to move"),
}

WITHOUT_FEELING = (
    "가게는 아홉 시에 연다", "회의실은 3층 오른쪽 끝에 있습니다", "이 버스는 5분마다 다닙니다",
    "Water boils at 100 degrees",
    "내일 2시까지 서류 두 부 출력해 주세요",
    "우유 두 개랑 계란 한 판 샀음", "오늘 회의는 3시",
    "The shop opens at nine", "The meeting room is on the third floor",
    "Please print two copies by Monday", "Bus 42 leaves from platform 3",
    "The recipe needs two cups of flour",
)
